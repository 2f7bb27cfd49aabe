"""Files to series, series to windows, and the cells that training hides in them."""
