a:
  salt.runner:
    - name: match.compound_matches
    - expr: 'm* and not x*'
    - minion_id: m1
b:
  salt.runner:
    - name: match.compound_matches
    - expr: x*
    - minion_id: m1
