/etc/{{ site }}:
  file.absent: []
