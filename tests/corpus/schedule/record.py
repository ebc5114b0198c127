#!/usr/bin/env python3
"""record.py: record when a real Salt runs the jobs of a schedule (SALT_VENV=/path/to/venv, as for ../record.py).

jobs.json: {case: {schedule, pillar, grains, start, step, ticks, jumps: {tick: seconds}, running: {tick: {job: count}} written by hand,
  runs, errors recorded}}. Salt's Schedule.eval is called every `step` seconds, which is its loop_interval, with a simulated clock; every
  random number is the largest possible one. `runs` has a line for each run: "TIME JOB FUNCTION". If Pinch differs, `ours` has its runs, and
  `why` the reason.
dates.json: {now, dates: {text: recorded}}: the date that dateutil parses, or null if it rejects the text.
cron.json: {expression: {from: written by hand, next: recorded}}: the next five times, or null if croniter rejects the expression.
"""
import datetime, json, logging, os, sys

os.environ["TZ"] = "UTC"
try:
    import salt.utils.schedule as schedule
except ImportError:
    python = os.path.join(os.environ["SALT_VENV"], "bin", "python")
    os.execv(python, [python, *sys.argv])
import types, warnings

import croniter, dateutil.parser._parser as parser
import salt.config

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = None
warnings.simplefilter("ignore")


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


parser.datetime = types.SimpleNamespace(**{**vars(datetime), "datetime": Clock})
schedule.random = types.SimpleNamespace(randint=lambda low, high: high)
schedule.salt.utils.jid.gen_jid = lambda opts: "jid"
schedule.clean_proc_dir = lambda opts: None
RUNNING = {}
schedule.salt.utils.minion.running = lambda opts: [
    {"schedule": job, "pid": 1} for job, count in RUNNING.items() for _ in range(count)]
schedule.salt.utils.process.os_is_running = lambda pid: True


def at(text):
    return datetime.datetime.fromisoformat(text)


def runs_of(case):
    global NOW, RUNNING
    step = case.get("step", 1)
    opts = {"id": "minion", "__role": "minion", "cachedir": "/tmp", "loop_interval": step, "schedule": case.get("schedule", {}),
            "pillar": case.get("pillar", {}), "grains": case.get("grains", {})}
    opts = json.loads(json.dumps(opts))
    runs, errors = [], {}
    it = schedule.Schedule(opts, {"test.ping": len}, returners={}, new_instance=True, utils={})
    it._run_job = lambda func, data, jid=None: runs.append(f"{NOW.isoformat()} {data['name']} {func}") if not data.get("dry_run") else None
    NOW = at(case["start"])
    for tick in range(case["ticks"]):
        NOW += datetime.timedelta(seconds=case.get("jumps", {}).get(str(tick), 0))
        RUNNING = case.get("running", {}).get(str(tick), {})
        try:
            it.eval(now=NOW)
        except Exception as error:
            errors["*"] = type(error).__name__
        schedules = [opts["schedule"], opts["pillar"].get("schedule")]
        for name, data in [job for jobs in schedules if isinstance(jobs, dict) for job in jobs.items()]:
            if isinstance(data, dict) and data.get("_error"):
                errors[name] = data["_error"]
        NOW += datetime.timedelta(seconds=step)
    return runs, errors


def load(name):
    with open(os.path.join(HERE, name)) as f:
        return json.load(f)


def save(name, data):
    with open(os.path.join(HERE, name), "w") as f:
        json.dump(data, f, indent=1, ensure_ascii=False)
        f.write("\n")


def date(text):
    try:
        return parser.parse(text).isoformat()
    except (ValueError, OverflowError):
        return None


def cron(expression, start):
    try:
        times = croniter.croniter(expression, at(start))
        return [times.get_next(datetime.datetime).isoformat() for _ in range(5)]
    except (ValueError, KeyError):
        return None


logging.disable(logging.CRITICAL)
jobs = load("jobs.json")
for name, case in jobs.items():
    case["runs"], case["errors"] = runs_of(case)
    for empty in ("errors",):
        if not case[empty]:
            del case[empty]
save("jobs.json", jobs)
dates = load("dates.json")
NOW = at(dates["now"])
dates["dates"] = {text: date(text) for text in dates["dates"]}
save("dates.json", dates)
crons = load("cron.json")
for expression, case in crons.items():
    case["next"] = cron(expression, case["from"])
save("cron.json", crons)
