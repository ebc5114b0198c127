cmd.run:
  salt.function:
    - tgt: '*'
    - arg:
      - rm -rf @TMP@/foo
