nginx:
  pkg.installed:
    - require:
      pkg: epel

epel:
  pkg.installed:
