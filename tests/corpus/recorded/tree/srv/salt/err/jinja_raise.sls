b:
  test.nop:
    - name: {{ raise('custom message') }}
