web:
  test.nop:
    - name: {{ 'a' | upercase }}
