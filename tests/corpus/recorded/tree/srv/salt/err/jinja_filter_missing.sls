b:
  test.nop:
    - name: {{ 1 | nosuchfilter }}
