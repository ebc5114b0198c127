{% set name = '/etc/motd' %}
{{ name }}:
  file.manged:
    - contents: hello
