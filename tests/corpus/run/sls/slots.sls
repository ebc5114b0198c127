a:
  test.configurable_test_state:
    - changes: True
    - comment: __slot__:salt:test.echo("hi there") ~ " x"
b:
  test.configurable_test_state:
    - comment: __slot__:salt:test.arg(x, k="v").kwargs.k ~ /more
c:
  test.configurable_test_state:
    - comment: __slot__:salt:test.nosuch(a)
d:
  test.configurable_test_state:
    - comment: __slot__:salt:test.echo( a b )
