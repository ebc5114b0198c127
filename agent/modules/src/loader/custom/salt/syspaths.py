"""Salt's folders."""
ROOT_DIR, CONFIG_DIR, CACHE_DIR, SOCK_DIR = "/", "/etc/salt", "/var/cache/salt", "/var/run/salt"
SRV_ROOT_DIR, BASE_FILE_ROOTS_DIR, BASE_PILLAR_ROOTS_DIR = "/srv", "/srv/salt", "/srv/pillar"
LOGS_DIR, PIDFILE_DIR, TMP_DIR = "/var/log/salt", "/var/run", "/tmp"
