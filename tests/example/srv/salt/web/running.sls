{% set web = pillar['web'] %}

start {{ web.root }}/serve.pl:
  cmd.run:
    - name: exec perl {{ web.root }}/serve.pl 2> {{ web.root }}/log
    - bg: True
    - unless: kill -0 "$(cat {{ web.root }}/pid)" 2> /dev/null
