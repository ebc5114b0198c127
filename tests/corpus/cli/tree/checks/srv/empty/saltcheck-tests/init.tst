empty:
  module_and_function: test.echo
  args: [""]
  assertion: assertEmpty
  output_details: True
empty_fails:
  module_and_function: test.echo
  args: [[1]]
  assertion: assertEmpty
not_empty:
  module_and_function: test.echo
  args: [[1]]
  assertion: assertNotEmpty
  output_details: True
not_empty_fails:
  module_and_function: test.echo
  args: [""]
  assertion: assertNotEmpty
