in_list:
  module_and_function: test.echo
  args: [[a, b]]
  assertion: assertIn
  expected_return: b
in_text:
  module_and_function: test.echo
  args: [abc]
  assertion: assertIn
  expected_return: b
in_fails:
  module_and_function: test.echo
  args: [[a, 1]]
  assertion: assertIn
  expected_return: b
  output_details: True
not_in:
  module_and_function: test.echo
  args: [{a: 1}]
  assertion: assertNotIn
  expected_return: b
not_in_fails:
  module_and_function: test.echo
  args: [abc]
  assertion: assertNotIn
  expected_return: b
  print_result: False
