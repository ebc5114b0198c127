web:
  test.nop:
    - name: {{ salt['ownmod.value']() }}
