"""The closed form as a part of the network: its plain variant, in torch, so that a served model fills windows."""

import torch
from torch import Tensor, nn

_NUMBERS = 1 << 22  # of the systems that are solved at a time: 32 MB
# Making K takes D³ multiplications, a system of k cells k³ / 3 and as long again to gather it. One core of an Intel
# Xeon makes K of D = 768 in 19 ms and solves for 700 of its cells in 9 ms (2026-11-26).
_COST = 2


class OwnForm(nn.Module):
    """A Gaussian conditional mean of the missing cells of standardised windows.

    Each sensor's level is the mean of its observed cells. A silent one takes it from those of the others that are near
    the ones of training, as in `glaim_stream.form.levels`. Of P, the inverse of the covariance of all
    cells around their levels, the missing cells q and the observed ones o of a window: P[q, q] x[q] = -P[q, o] x[o].
    Where fewer cells are observed than missing, the covariance K is the shorter way: x[q] = K[q, o] inverse(K[o, o])
    x[o], at the start of a stream, and when a whole group has been silent. K is made from P, here for each call whose
    windows save more than that costs, and once by `LoadedForm`.
    """

    precision: Tensor
    unit: Tensor
    level_covariance: Tensor
    level_zero: Tensor
    level_range: Tensor

    def __init__(self, sensors: int, window: int) -> None:
        """Start with independent cells, and levels of 0.

        Buffers, all float64; standardised values are divided by `unit` first:
            precision: P [C * T, C * T].
            unit: [C].
            level_covariance: [C, C], of the levels, with a ridge.
            level_zero: [C], the mean of the levels.
            level_range: [2, C], the lowest and the highest level.
        """
        super().__init__()
        self.numbers, self.cost = _NUMBERS, _COST
        self.register_buffer("precision", torch.eye(sensors * window, dtype=torch.float64))
        self.register_buffer("unit", torch.ones(sensors, dtype=torch.float64))
        self.register_buffer("level_covariance", torch.eye(sensors, dtype=torch.float64))
        self.register_buffer("level_zero", torch.zeros(sensors, dtype=torch.float64))
        self.register_buffer("level_range", torch.zeros(2, sensors, dtype=torch.float64))

    def forward(self, values: Tensor, observed: Tensor, moved: Tensor | None = None) -> Tensor:
        """Fill windows.

        Args:
            values: float [B, C, T], standardised; ignored where not observed.
            observed: bool [B, C, T].
            moved: bool [B, C], rows from which their level has been taken: they say nothing of silent sensors.

        Returns:
            [B, C, T] in the type of `values`; observed cells unchanged.
        """
        batch, sensors, steps = values.shape
        unit = self.unit.view(1, -1, 1)
        clean = torch.where(observed, values, torch.zeros_like(values)).to(torch.float64) / unit
        seen = observed.sum(dim=2)
        level = self.levels(clean.sum(dim=2) / seen.clamp(min=1), seen > 0, moved).unsqueeze(2)
        known = torch.where(observed, clean - level, torch.zeros_like(clean)).flatten(1)  # (B, D)
        seen_cells = observed.flatten(1)
        missing, cells = seen_cells.logical_not(), seen_cells.size(1)
        holes, order = missing.sum(dim=1).topk(batch)  # the windows with the most first
        few = cells - holes
        saved = torch.where(holes > few, holes * holes * holes - few * few * few, torch.zeros_like(holes))
        sparse = int((saved > 0).sum()) if int(saved.sum()) > self.cost * cells * cells * cells else 0
        rows = order[sparse:]
        solved = torch.zeros_like(known)
        if sparse < batch:
            right = -torch.matmul(known.index_select(0, rows), self.precision)
            solved = solved.index_copy(0, rows, self.solve(self.precision, missing.index_select(0, rows), right))
        if sparse > 0:
            rows = order[:sparse]
            covariance = self.covariance()
            weights = self.solve(covariance, seen_cells.index_select(0, rows), known.index_select(0, rows))
            solved = solved.index_copy(0, rows, torch.matmul(weights, covariance))
        filled = (solved.view(batch, sensors, steps) + level) * unit
        return torch.where(observed, values, filled.to(values.dtype))

    def covariance(self) -> Tensor:
        """Return K [D, D]."""
        lower, _ = torch.linalg.cholesky_ex(self.precision)
        return torch.cholesky_inverse(lower)

    def levels(self, level: Tensor, known: Tensor, moved: Tensor | None = None) -> Tensor:
        """Return levels [B, C], of silent sensors their expectation given those of the others.

        Args:
            level: [B, C]; ignored where not known.
            known: bool [B, C].
            moved: bool [B, C], as in `forward`.
        """
        lowest, highest = self.level_range[0], self.level_range[1]
        span = highest - lowest
        lowest, highest = lowest - span, highest + span
        near = torch.logical_and(level >= lowest, level <= highest)
        usable = torch.logical_and(known, near)
        if moved is not None:
            usable = torch.logical_and(usable, moved.logical_not())
        away = torch.where(usable, level - self.level_zero, torch.zeros_like(level))
        both = torch.logical_and(usable.unsqueeze(2), usable.unsqueeze(1))
        one = torch.eye(level.size(1), dtype=level.dtype, device=level.device)
        lower, _ = torch.linalg.cholesky_ex(torch.where(both, self.level_covariance, one))
        weights = torch.cholesky_solve(away.unsqueeze(2), lower).squeeze(2)
        expected = self.level_zero + torch.matmul(weights, self.level_covariance)
        return torch.where(known, level, torch.minimum(torch.maximum(expected, lowest), highest))

    def solve(self, matrix: Tensor, chosen: Tensor, right: Tensor) -> Tensor:
        """Return x [n, D] of matrix[c, c] x[c] = right[c] for each window's chosen cells c, and 0 elsewhere.

        The sizes of the systems differ, so windows with about as many cells are solved together.

        Args:
            matrix: [D, D], symmetric and positive definite.
            chosen: bool [n, D].
            right: [n, D]; ignored elsewhere.
        """
        counts, order = chosen.sum(dim=1).topk(chosen.size(0))  # the largest systems first
        solved = torch.zeros_like(right)
        start = 0
        while start < chosen.size(0):
            most = int(counts[start])
            if most == 0:
                start = chosen.size(0)
            else:
                end = min(chosen.size(0), start + max(1, self.numbers // (most * most)))
                rows = order[start:end]
                cells = chosen.index_select(0, rows).to(torch.float32).topk(most, dim=1)[1]  # the chosen ones first
                found = self.solve_padded(matrix, cells, counts[start:end], right.index_select(0, rows))
                solved = solved.index_copy(0, rows, found)
                start = end
        return solved

    def solve_padded(self, matrix: Tensor, cells: Tensor, counts: Tensor, right: Tensor) -> Tensor:
        """Solve systems of different sizes as one batch, padded with ones on the diagonal.

        Args:
            matrix: as in `solve`.
            cells: int64 [n, k], the cells of each window's system and some others after them.
            counts: int64 [n], sizes of the systems.
            right: as in `solve`.
        """
        count, size = cells.shape
        real = torch.arange(size, device=cells.device) < counts.unsqueeze(1)
        places = cells.unsqueeze(2) * matrix.size(0) + cells.unsqueeze(1)
        system = matrix.flatten().index_select(0, places.flatten()).view(count, size, size)
        both = torch.logical_and(real.unsqueeze(2), real.unsqueeze(1))
        system = torch.where(both, system, torch.eye(size, dtype=system.dtype, device=system.device))
        wanted = torch.where(real, right.gather(1, cells), torch.zeros_like(right[:, :size]))
        lower, _ = torch.linalg.cholesky_ex(system)
        found = torch.cholesky_solve(wanted.unsqueeze(2), lower).squeeze(2)
        return torch.zeros_like(right).scatter(1, cells, found)  # padding has a right-hand side of 0, so a result of 0


class LoadedForm(OwnForm):
    """The form of a served network, which makes K as its file is loaded: the file would be twice as large with it."""

    def __init__(self, form: OwnForm) -> None:
        super().__init__(form.unit.size(0), form.precision.size(0) // form.unit.size(0))
        self.load_state_dict(form.state_dict())
        self.cost = 0
        self.kept = form.covariance()

    def covariance(self) -> Tensor:
        """Return K [D, D]."""
        return self.kept

    @torch.jit.export  # type: ignore[untyped-decorator]
    def __getstate__(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int, bool]:
        """What the file holds."""
        return (
            self.precision, self.unit, self.level_covariance, self.level_zero, self.level_range, self.numbers,
            self.training,
        )  # fmt: skip

    @torch.jit.export  # type: ignore[untyped-decorator]
    def __setstate__(self, state: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int, bool]) -> None:
        """Take it, and make K."""
        self.precision = state[0]
        self.unit = state[1]
        self.level_covariance = state[2]
        self.level_zero = state[3]
        self.level_range = state[4]
        self.numbers = state[5]
        self.training = state[6]
        self.cost = 0
        lower, _ = torch.linalg.cholesky_ex(state[0])
        self.kept = torch.cholesky_inverse(lower)
