a:
  test.nop: []
nginx:
  service.running:
    - watch:
      - test: a
  pkg.installed:
    - watch_any:
      - test: a
/mnt:
  mount.mounted:
    - watch:
      - test: a
tidy:
  cron.present:
    - require:
      - test: a
    - watch:
      - service: nginx
