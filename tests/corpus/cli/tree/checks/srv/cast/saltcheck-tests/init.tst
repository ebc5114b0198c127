list_cast:
  module_and_function: test.echo
  args: [[a, b]]
  assertion: assertEqual
  expected_return: [a, b]
dict_cast_fails:
  module_and_function: test.kwarg
  kwargs: {a: 1}
  assertion: assertEqual
  expected_return: text
bool_cast:
  module_and_function: test.false
  assertion: assertEqual
  expected_return: "False"
