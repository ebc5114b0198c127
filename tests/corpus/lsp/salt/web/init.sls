include:
  - base
  - .site

extend:
  tools:
    pkg:
      - version: '1'

web packages:
  pkg.installed:
    - pkgs:
      - nginx
    - require:
      - file: /etc/motd
      - sls: base
