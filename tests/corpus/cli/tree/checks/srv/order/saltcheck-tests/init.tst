greater:
  module_and_function: test.echo
  args: [3]
  assertion: assertGreater
  expected_return: 4
greater_fails:
  module_and_function: test.echo
  args: [3]
  assertion: assertGreater
  expected_return: 3
greater_equal:
  module_and_function: test.echo
  args: [3]
  assertion: assertGreaterEqual
  expected_return: "3"
  output_details: True
less:
  module_and_function: test.echo
  args: [3.5]
  assertion: assertLess
  expected_return: 3
less_fails:
  module_and_function: test.echo
  args: [b]
  assertion: assertLess
  expected_return: c
less_equal:
  module_and_function: test.echo
  args: [b]
  assertion: assertLessEqual
  expected_return: b
