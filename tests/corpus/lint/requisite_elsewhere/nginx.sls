nginx:
  service.running:
    - require:
      - pkg: nginx-full
