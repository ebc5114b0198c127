/etc/motd:
  file.managed:
    - contents: hello
    - mode: 0644  # pinch: allow I802
    - contnets: hello  # pinch: allow suspicious-argument
