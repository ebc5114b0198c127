several_with_a_wrong_one:
  module_and_function: test.ping
  assertions:
    - assertion: assertNothing
      expected_return: 1
    - assertion: assertTrue
skipped:
  module_and_function: test.ping
  assertion: assertTrue
  skip: True
pillar:
  module_and_function: test.echo
  args: [web1]
  assertion: assertEqual
  expected_return: {{ pillar['name'] }}
keywords:
  module_and_function: test.kwarg
  kwargs: {a: 1}
  assertion: assertEqual
  assertion_section: a
  expected_return: 1
no_module:
  module_and_function: nosuch.function
  assertion: assertTrue
no_function:
  module_and_function: test.nosuch
  assertion: assertTrue
no_assertion:
  module_and_function: test.ping
wrong_assertion:
  module_and_function: test.ping
  assertion: assertNothing
  expected_return: 1
no_expected:
  module_and_function: test.ping
  assertion: assertEqual
nothing: {}
skipped_and_invalid:
  skip: True
