/root/{{ pillar.file }}:
  file.managed:
    - source: salt://greeting.txt
    - template: jinja
