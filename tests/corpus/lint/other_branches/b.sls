/etc/b.conf:
  file.absent: []
