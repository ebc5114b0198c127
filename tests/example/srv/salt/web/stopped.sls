{% set web = pillar['web'] %}

stop {{ web.root }}/serve.pl:
  cmd.run:
    - name: kill "$(cat {{ web.root }}/pid)"
    - onlyif: test -s {{ web.root }}/pid && kill -0 "$(cat {{ web.root }}/pid)" 2> /dev/null
