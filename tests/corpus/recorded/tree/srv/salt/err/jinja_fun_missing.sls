b:
  test.nop:
    - name: {{ salt['nosuch.fun']() }}
