raised:
  module_and_function: test.exception
  args: [broken]
  assertion: assertTrue
good:
  module_and_function: test.ping
  assertion: assertTrue
not_iterable:
  module_and_function: test.ping
  assertion: assertIn
  expected_return: a
