setup:
  module_and_function: saltcheck.state_apply
  args: [app.prepared]
  pillar_data: {data: mine}
section:
  module_and_function: test.echo
  args: [{a: {b: [1, 2]}}]
  assertion: assertEqual
  assertion_section: a:b:1
  expected_return: 2
  output_details: True
delimiter:
  module_and_function: test.echo
  args: [{"a:b": {c: x}}]
  assertion: assertEqual
  assertion_section: a:b|c
  assertion_section_delimiter: "|"
  expected_return: x
no_section:
  module_and_function: test.echo
  args: [{a: 1}]
  assertion: assertEqual
  assertion_section: b
  expected_return: 1
several:
  module_and_function: test.echo
  args: [{a: 1, b: text}]
  output_details: True
  assertions:
    - assertion: assertEqual
      assertion_section: a
      expected_return: 1
    - assertion: assertIn
      assertion_section: b
      expected_return: ext
several_fail:
  module_and_function: test.echo
  args: [{a: 1, b: text}]
  assertions:
    - assertion: assertEqual
      assertion_section: a
      expected_return: 2
    - assertion: assertNotEmpty
