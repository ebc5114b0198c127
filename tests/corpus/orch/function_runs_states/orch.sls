a:
  salt.function:
    - name: state.apply
    - tgt: '*'
    - arg: [good]
b:
  salt.function:
    - name: state.apply
    - tgt: '*'
    - arg: [bad]
