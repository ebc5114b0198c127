nginx:
  pkg.installed: []
  service.running:
    - require:
      - pkg: ngnix
