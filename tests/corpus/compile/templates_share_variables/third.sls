third:
  test.nop:
    - pillar: {{ pillar }}
