"""The jobs."""


def get_keep_jobs_seconds(opts):
    """Returns how long jobs are kept. The option keep_jobs counts hours."""
    seconds, hours = opts.get("keep_jobs_seconds", 86400), opts.get("keep_jobs", 24)
    return hours * 3600 if seconds == 86400 and hours != 24 else seconds
