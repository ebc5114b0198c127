"""Job ids."""
import datetime

_last = ""


def gen_jid(opts=None):
    global _last
    now = datetime.datetime.utcnow() if (opts or {}).get("utc_jid") else datetime.datetime.now()
    while now.strftime("%Y%m%d%H%M%S%f") <= _last:
        now += datetime.timedelta(microseconds=1)
    _last = now.strftime("%Y%m%d%H%M%S%f")
    return _last


def is_jid(jid):
    return isinstance(jid, str) and (len(jid) == 20 or len(jid) > 21 and jid[20] == "_") and jid[:20].isdigit()


def jid_to_time(jid):
    jid = str(jid)
    if not is_jid(jid):
        return ""
    return "{}, {} {} {}:{}:{}.{}".format(jid[:4], datetime.date(int(jid[:4]), int(jid[4:6]), int(jid[6:8])).strftime("%b"), jid[6:8], jid[8:10], jid[10:12], jid[12:14], jid[14:20])
