"""Cuts of the forms in which programs, loggers and archives write readings, with readings of our own.

Each form has the lines above the readings and the text of a row. `docs/forms.md` lists them, and a test
compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

ROWS = 48
HOLES = {"a": (10, 11), "b": (30,)}  # rows without a reading of the one and of the other sensor
START = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of export.

    head: lines above the readings, the line of names among them.
    row: text of a row: `{t}` its time, `{u}` the end of its step, `{e}` seconds since 1970, `{n}` its number from 1,
        `{d}` millionths of days since 1899-12-30,
        `{a}` and `{b}` its readings.
    sensors: sensors that are read; holes: cells that are filled.
    missing: text of a cell without a reading.
    first: first time, as read.
    flags: flags of `fill` that the form needs.
    """

    program: str
    name: str
    head: str
    row: str
    sensors: Sequence[str]
    step: int = 10  # minutes
    missing: str = ""
    decimal: str = "."
    first: str = "2026-03-02T00:00:00Z"
    flags: tuple[str, ...] = ()
    holes: int = 3

    def text(self) -> str:
        """The file."""
        return "".join(f"{line}\n" for line in (*self.head.splitlines(), *self._rows()))

    def with_holes(self) -> list[str]:
        """The lines with holes."""
        lines = len(self.row.split("\n"))
        rows = self._rows()
        found = []
        for sensor, places in HOLES.items():
            wanted = next((at for at, line in enumerate(self.row.split("\n")) if f"{{{sensor}}}" in line), None)
            found += [] if wanted is None else [rows[place * lines + wanted] for place in places]
        return found

    def _rows(self) -> list[str]:
        rows = []
        for at in range(ROWS):
            t = START + timedelta(minutes=self.step * at)
            cells = {"a": f"{20 + 3 * math.sin(at / 4) + at % 3 / 50:.2f}", "b": f"{55 + 9 * math.cos(at / 5):.1f}"}
            cells = {each: text.replace(".", self.decimal) for each, text in cells.items()}
            cells |= {each: self.missing for each, places in HOLES.items() if at in places}
            seconds = int(t.timestamp())
            more = {"u": t + timedelta(minutes=self.step), "e": seconds, "n": at + 1}
            more["d"] = f"{(25_569 + seconds / 86_400) * 1e6:.4f}".replace(".", self.decimal)
            rows += self.row.format(t=t, **more, **cells).splitlines()
        return rows


FORMS = (
    Form(
        "Campbell Scientific",
        "TOA5",
        '"TOA5","CR1000","CR1000","1234","CR1000.Std.32","CPU:met.CR1","5566","Met"\n'
        '"TIMESTAMP","RECORD","AirTC_Avg","RH"\n'
        '"TS","RN","Deg C","%"\n"","","Avg","Smp"',
        '"{t:%Y-%m-%d %H:%M:%S}",{n},{a},{b}',
        ("AirTC_Avg", "RH"),
        missing='"NAN"',
    ),
    Form(
        "Onset HOBO",
        "HOBOware CSV",
        '"Plot Title: 10767837"\n"#","Date Time, GMT-06:00","Temp, \u00b0C (LGR S/N: 1)","RH, % (LGR S/N: 1)"',
        "{n},{t:%m/%d/%y %I:%M:%S %p},{a},{b}",
        ("Temp, \u00b0C (LGR S/N: 1)", "RH, % (LGR S/N: 1)"),
        first="2026-03-02T06:00:00Z",
        flags=("--date-order", "mdy"),
    ),
    Form(
        "DWD",
        "10 minutes",
        "STATIONS_ID;MESS_DATUM;  QN;TT_10;RF_10;eor",
        "       1766;{t:%Y%m%d%H%M};    3;  {a};  {b};eor",
        ("TT_10", "RF_10"),
        missing="-999",
    ),
    Form(
        "DWD",
        "hourly",
        "STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor",
        "       1766;{t:%Y%m%d%H};    3;{a};{b};eor",
        ("TT_TU", "RF_TU"),
        step=60,
        missing="-999.0",
    ),
    Form(
        "DWD",
        "daily",
        "STATIONS_ID;MESS_DATUM;QN_3;TMK;UPM;eor",
        "       1766;{t:%Y%m%d};   10;  {a};  {b};eor",
        ("TMK", "UPM"),
        step=1440,
        missing="-999",
    ),
    Form(
        "DWD",
        "observations (POI)",
        "surface observations;time;temperature;humidity\nParameter;UTC;degC;%",
        "{t:%d.%m.%y};{t:%H:%M};{a};{b}",
        ("temperature", "humidity"),
        step=60,
        decimal=",",
        missing="---",
        flags=("--date-order", "dmy"),
    ),
    Form(
        "AmeriFlux",
        "BASE",
        "# Site: US-CRT\n# Version: 2-5\nTIMESTAMP_START,TIMESTAMP_END,TA,RH",
        "{t:%Y%m%d%H%M},{u:%Y%m%d%H%M},{a},{b}",
        ("TA", "RH"),
        step=30,
        missing="-9999",
        flags=("--time", "TIMESTAMP_START"),
    ),
    Form(
        "USGS",
        "RDB",
        "# retrieved: 2026-03-02\n#\nagency_cd\tsite_no\tdatetime\ttz_cd\t1_00010\t1_00060\n5s\t15s\t20d\t6s\t14n\t14n",
        "USGS\t05427718\t{t:%Y-%m-%d %H:%M}\tEST\t{a}\t{b}",
        ("1_00010", "1_00060"),
        step=15,
        first="2026-03-02T05:00:00Z",
    ),
    Form(
        "KNMI",
        "hourly",
        "# KNMI\n# STN,YYYYMMDD,   HH,    T,    U",
        "  260,{t:%Y%m%d}, {t:%H}, {a}, {b}",
        ("T", "U"),
        step=60,
    ),
    Form(
        "Green Button",
        "CSV of a utility",
        "TYPE,DATE,START TIME,END TIME,USAGE,UNITS,NOTES",
        "Electric usage,{t:%Y-%m-%d},{t:%H:%M},{u:%H:%M},{a},kWh,",
        ("USAGE",),
        step=15,
        holes=2,
    ),
    Form(
        "PG&E",
        "interval data",
        "Name,A. Customer\nAddress,1 Way\n\nTYPE,DATE,START TIME,END TIME,IMPORT (kWh),EXPORT (kWh),NOTES",
        "Electric usage,{t:%Y-%m-%d},{t:%H:%M},{u:%H:%M},{a},{b},",
        ("IMPORT (kWh)", "EXPORT (kWh)"),
        step=15,
    ),
    Form(
        "Torque",
        "track log",
        "GPS Time,Device Time,Longitude,Latitude,Engine Coolant Temperature(\u00b0C),Speed (OBD)(km/h)",
        "{t:%a %b %d %H:%M:%S} GMT 2026,{t:%d-%b-%Y %H:%M:%S}.000,8.5,50.1,{a},{b}",
        ("Engine Coolant Temperature(\u00b0C)", "Speed (OBD)(km/h)"),
        missing="-",
    ),
    Form(
        "Dexcom",
        "Clarity",
        "Index,Timestamp (YYYY-MM-DDThh:mm:ss),Event Type,Patient Info,Glucose Value (mg/dL),Rate (mg/dL/min)\n"
        "1,,FirstName,Ann,,\n2,,Alert,,70,",
        "{n},{t:%Y-%m-%dT%H:%M:%S},EGV,,{a},{b}",
        ("Glucose Value (mg/dL)", "Rate (mg/dL/min)"),
        step=5,
    ),
    Form(
        "Abbott Libre",
        "LibreView",
        "Glucose Data,Generated on,03-02-2026 10:00 UTC,Generated by,Ann,\n"
        "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mg/dL,Notes",
        "FreeStyle,AB12,{t:%d-%m-%Y %H:%M},0,{a},",
        ("Historic Glucose mg/dL",),
        step=15,
        holes=2,
        flags=("--date-order", "dmy"),
    ),
    Form(
        "Grafana",
        "series joined by time",
        '"Time","room","outside"',
        "{t:%Y-%m-%d %H:%M:%S},{a},{b}",
        ("room", "outside"),
    ),
    Form(
        "Grafana",
        "series as rows",
        '"Series";"Time";"Value"',
        '"room";{t:%Y-%m-%dT%H:%M:%S}+00:00;{a}\n"outside";{t:%Y-%m-%dT%H:%M:%S}+00:00;{b}',
        ("room", "outside"),
        missing="null",
    ),
    Form(
        "ThingSpeak",
        "feeds.csv",
        "created_at,entry_id,field1,field2,latitude,longitude,elevation,status",
        "{t:%Y-%m-%d %H:%M:%S} UTC,{n},{a},{b},,,,",
        ("field1", "field2"),
    ),
    Form(
        "Home Assistant",
        "history",
        "entity_id,state,last_changed",
        "sensor.room,{a},{t:%Y-%m-%dT%H:%M:%S}.000Z\nsensor.hall,{b},{t:%Y-%m-%dT%H:%M:%S}.000Z",
        ("sensor.room", "sensor.hall"),
        missing="unavailable",
    ),
    Form(
        "InfluxDB",
        "annotated CSV",
        "#group,false,false,false,false,true\n#datatype,string,long,dateTime:RFC3339,double,string\n"
        "#default,_result,,,,\n,result,table,_time,_value,room",
        ",,0,{t:%Y-%m-%dT%H:%M:%SZ},{a},hall\n,,1,{t:%Y-%m-%dT%H:%M:%SZ},{b},roof",
        ("hall", "roof"),
    ),
    Form(
        "InfluxDB",
        "influx -format csv",
        "name,time,humidity,temperature",
        "air,{e}000000000,{b},{a}",
        ("humidity", "temperature"),
    ),
    Form(
        "Davis",
        "WeatherLink",
        "\t\tTemp\tHi\tOut\nDate\tTime\tOut\tTemp\tHum",
        "{t:%d.%m.%y}\t{t:%H:%M}\t{a}\t{a}\t{b}",
        ("Out", "Temp", "Hum"),
        missing="---",
        holes=5,
        flags=("--date-order", "dmy"),
    ),
    Form(
        "CIMIS",
        "hourly",
        "Stn Id,Date,Hour (PST),Air Temp (F),qc,Rel Hum (%),qc",
        "2,{u:%m/%d/%Y},{u:%H}00,{a}, ,{b}, ",
        ("Air Temp (F)", "Rel Hum (%)"),
        step=60,
        first="2026-03-02T01:00:00Z",
        flags=("--date-order", "mdy"),
    ),
    Form(
        "Netatmo",
        "CSV",
        '"Name";"Long";"Lat";"ModuleName";"ModuleType"\n"Indoor";"2.0";"48.0";"Indoor";"Base"\n'
        'Timestamp;"Timezone : Europe/Paris";Temperature;Humidity;CO2',
        '{e};"{t:%Y/%m/%d %H:%M:%S}";{a};{b};600',
        ("Temperature", "Humidity"),
        step=5,
    ),
    Form(
        "EPA AQS",
        "hourly",
        '"State Code","Date Local","Time Local","Date GMT","Time GMT","Sample Measurement"',
        '"06","{t:%Y-%m-%d}","{t:%H:%M}","{t:%Y-%m-%d}","{t:%H:%M}",{a}',
        ("Sample Measurement",),
        step=60,
        holes=2,
    ),
    Form(
        "NEON",
        "2 minutes",
        "startDateTime,endDateTime,tempSingleMean,tempSingleMaximum,finalQF",
        '"{t:%Y-%m-%dT%H:%M:%SZ}","{u:%Y-%m-%dT%H:%M:%SZ}",{a},{b},0',
        ("tempSingleMean", "tempSingleMaximum"),
        step=2,
        flags=("--time", "startDateTime"),
    ),
    Form(
        "PI DataLink",
        "sampled data",
        "Timestamp,FIC101.PV,TIC102.PV",
        "{t:%d-%b-%y %H:%M:%S},{a},{b}",
        ("FIC101.PV", "TIC102.PV"),
        missing="No Data",
    ),
    Form(
        "OpenAQ",
        "API export",
        "location_id,location_name,parameter,value,units,datetimeUtc,datetimeLocal",
        "7,Hill,pm25,{a},ug,{t:%Y-%m-%dT%H:%M:%SZ},{t:%Y-%m-%dT%H:%M:%S}+00:00\n"
        "7,Hill,no2,{b},ppb,{t:%Y-%m-%dT%H:%M:%SZ},{t:%Y-%m-%dT%H:%M:%S}+00:00",
        ("pm25", "no2"),
        step=60,
    ),
    Form(
        "Siemens WinCC",
        "tag logging",
        '"VarName";"TimeString";"VarValue";"Validity";"Time_ms"',
        '"Temp";"{t:%d.%m.%Y %H:%M:%S}";{a};1;{d}\n"Level";"{t:%d.%m.%Y %H:%M:%S}";{b};1;{d}',
        ("Temp", "Level"),
        decimal=",",
        flags=("--date-order", "dmy"),
    ),
    Form(
        "The Things Network",
        "storage",
        "received_at,device_id,temperature,humidity",
        "{t:%Y-%m-%dT%H:%M:%S}.123456789Z,node-1,{a},{b}",
        ("temperature", "humidity"),
        first="2026-03-02T00:00:00.123Z",
    ),
    Form(
        "Fronius",
        "Solar.web",
        "Date and time;Energy | Symo;Consumption\n[dd.MM.yyyy HH:mm];[Wh];[Wh]",
        "{t:%d.%m.%Y %H:%M};{a};{b}",
        ("Energy | Symo", "Consumption"),
        step=5,
        decimal=",",
        flags=("--date-order", "dmy"),
    ),
    Form(
        "Enedis",
        "load curve",
        "Identifiant PRM;Type de donnees;Date de debut;Date de fin\n"
        "123;Courbe de charge;02/03/2026;03/03/2026\nHorodate;Valeur",
        "{t:%Y-%m-%dT%H:%M:%S}+01:00;{a}",
        ("Valeur",),
        step=30,
        holes=2,
        first="2026-03-01T23:00:00Z",
    ),
    Form(
        "PME miniDOT",
        "concatenated",
        "Sensor: 7392-1234\nUnix Timestamp,UTC_Date_&_Time,Temperature,Dissolved Oxygen\n"
        "(Second),(none),(deg C),(mg/l)",
        "{e},{t:%Y-%m-%d %H:%M:%S},{a},{b}",
        ("Temperature", "Dissolved Oxygen"),
    ),
    Form(
        "Solinst",
        "Levelogger CSV",
        "Serial_number:\n2012345\nProject ID:\nWell\nLEVEL\nUNIT: m\nTEMPERATURE\nUNIT: Deg C\n"
        "Date,Time,ms,LEVEL,TEMPERATURE",
        "{t:%Y/%m/%d},{t:%H:%M:%S},0,{a},{b}",
        ("LEVEL", "TEMPERATURE"),
    ),
    Form(
        "Sofar Spotter",
        "bulk parameters",
        "Battery Voltage (V),Epoch Time,Significant Wave Height (m),Peak Period (s)",
        "4.1,{e},{a},{b}",
        ("Significant Wave Height (m)", "Peak Period (s)"),
        step=30,
    ),
    Form(
        "Ignition",
        "tag history",
        '"t_stamp","line/flow","line/temp"',
        '"{t:%Y-%m-%d %H:%M:%S}","{a}","{b}"',
        ("line/flow", "line/temp"),
    ),
    Form(
        "Kepware",
        "data logger",
        "_NAME,_NUMERICID,_VALUE,_TIMESTAMP,_QUALITY",
        "Line.Flow,0,{a},{t:%Y-%m-%d %H:%M:%S},192\nLine.Temp,0,{b},{t:%Y-%m-%d %H:%M:%S},192",
        ("Line.Flow", "Line.Temp"),
    ),
    Form(
        "NDBC",
        "standard meteorological",
        "#YY  MM DD hh mm WTMP WSPD\n#yr  mo dy hr mn degC m/s",
        "{t:%Y} {t:%m} {t:%d} {t:%H} {t:%M} {a} {b}",
        ("WTMP", "WSPD"),
        missing="MM",
    ),
    Form("Meteostat", "hourly", "date,hour,temp,rhum", "{t:%Y-%m-%d},{t.hour},{a},{b}", ("temp", "rhum"), step=60),
    Form(
        "GHCN-Daily",
        "CSV",
        '"STATION","DATE","TMAX","TMIN"',
        '"USC1","{t:%Y-%m-%d}","{b}","{a}"',
        ("TMAX", "TMIN"),
        step=1440,
    ),
    Form(
        "SolarEdge",
        "site energy",
        "Date/Time,Energy (Wh),Power (W)",
        "{t:%m/%d/%Y %H:%M},{a},{b}",
        ("Energy (Wh)", "Power (W)"),
        step=15,
        flags=("--date-order", "mdy"),
    ),
    Form(
        "SMA",
        "Sunny Explorer",
        "sep=;\nVersion CSV1|Tool SE\n\nDD.MM.YYYY hh:mm:ss;kWh;kW",
        "{t:%d.%m.%Y %H:%M:%S};{a};{b}",
        ("kWh", "kW"),
        step=5,
        decimal=",",
        flags=("--date-order", "dmy"),
    ),
    Form(
        "Shelly",
        "consumption",
        "timestamp,total_act_energy,voltage",
        "{e},{a},{b}",
        ("total_act_energy", "voltage"),
        step=1,
    ),
    Form(
        "Tuya",
        "device log",
        "Time,Temperature(\u2103),Humidity(%)",
        "{t:%Y-%m-%d %H:%M:%S},{a},{b}",
        ("Temperature(\u2103)", "Humidity(%)"),
    ),
    Form(
        "Fluke",
        "Connect",
        "Start Time,Duration,Average (V),Maximum (V)",
        "{t:%Y-%m-%d %H:%M:%S}.0,1 s,{a},{b}",
        ("Average (V)", "Maximum (V)"),
        step=1,
    ),
    Form(
        "Hioki",
        "logger CSV",
        '"HIOKI 8420"\n"Trigger","2026-03-02"\n"Date","Time","CH1[V]","CH2[degC]"',
        '"{t:%Y-%m-%d}","{t:%H:%M:%S}",{a},{b}',
        ("CH1[V]", "CH2[degC]"),
        step=1,
    ),
    Form(
        "Testo",
        "Comfort",
        "Date / time;1:[\u00b0C] T1;2:[%rH] H1",
        "{t:%d.%m.%Y %H:%M:%S};{a};{b}",
        ("1:[\u00b0C] T1", "2:[%rH] H1"),
        decimal=",",
        missing="-",
        flags=("--date-order", "dmy"),
    ),
    Form(
        "Rotronic",
        "HW4",
        "Logger: HL20\nDate\tTime\tHumidity %rh\tTemperature C",
        "{t:%d.%m.%Y}\t{t:%H:%M:%S}\t{b}\t{a}",
        ("Humidity %rh", "Temperature C"),
        missing="---.-",
        flags=("--date-order", "dmy"),
    ),
    Form(
        "Lascar EasyLog",
        "USB",
        "Shed,Time,Celsius(\u00b0C),Humidity(%rh),Serial Number",
        "{n},{t:%d/%m/%Y %H:%M:%S},{a},{b},10012",
        ("Celsius(\u00b0C)", "Humidity(%rh)"),
        flags=("--date-order", "dmy"),
    ),
    Form(
        "Open-Meteo",
        "CSV",
        "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation\n"
        "52.5,13.4,38.0,0,GMT,GMT\n\ntime,temperature_2m (C),relative_humidity_2m (%)",
        "{t:%Y-%m-%dT%H:%M},{a},{b}",
        ("temperature_2m (C)", "relative_humidity_2m (%)"),
        step=60,
    ),
    Form(
        "Sensor.Community",
        "archive",
        "sensor_id;sensor_type;location;lat;lon;timestamp;temperature;humidity",
        "113;DHT22;48;48.8;9.2;{t:%Y-%m-%dT%H:%M:%S};{a};{b}",
        ("temperature", "humidity"),
        step=5,
        missing="nan",
    ),
    Form(
        "Ecowitt",
        "history",
        "Time,Indoor Temperature(\u2103),Indoor Humidity(%)",
        "{t:%Y/%m/%d %H:%M},{a},{b}",
        ("Indoor Temperature(\u2103)", "Indoor Humidity(%)"),
        step=5,
        missing="--",
    ),
    Form(
        "Elitech",
        "ElitechLog",
        "No.,Time,Temperature\u00b0C,Humidity%RH",
        "{n},{t:%Y-%m-%d %H:%M:%S},{a},{b}",
        ("Temperature\u00b0C", "Humidity%RH"),
    ),
)
