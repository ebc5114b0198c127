b:
  test.nop:
    - name: {{ pillar['nokey'] }}
