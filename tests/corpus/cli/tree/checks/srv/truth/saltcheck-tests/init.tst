true:
  module_and_function: test.ping
  assertion: assertTrue
true_fails:
  module_and_function: test.echo
  args: [text]
  assertion: assertTrue
  output_details: True
false:
  module_and_function: test.false
  assertion: assertFalse
false_text:
  module_and_function: test.echo
  args: [text]
  assertion: assertFalse
