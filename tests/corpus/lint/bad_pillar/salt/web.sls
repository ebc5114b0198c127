web:
  test.nop:
    - name: {{ pillar['port'] }}
