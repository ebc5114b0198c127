nginx-full:
  pkg.installed: []
