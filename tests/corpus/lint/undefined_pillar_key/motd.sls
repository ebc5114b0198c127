/etc/motd:
  file.managed:
    - contents: {{ pillar['motd']['text'] }}
