equal:
  module_and_function: test.echo
  args: [hello]
  kwargs:
  assertion: assertEqual
  expected_return: hello
equal_old_name:
  module_and_function: test.echo
  args: [hello]
  assertion: assertEqual
  expected-return: hello
not_equal_fails:
  module_and_function: test.echo
  args: [hello]
  assertion: assertNotEqual
  expected_return: hello
equal_fails:
  module_and_function: test.echo
  args: [hello]
  assertion: assertEqual
  expected_return: bye
equal_hidden:
  module_and_function: test.echo
  args: [hello]
  assertion: assertEqual
  expected_return: bye
  print_result: False
  output_details: True
{% for number in [1, 2] %}
number_{{ number }}:
  module_and_function: test.echo
  args: [{{ number }}]
  assertion: assertEqual
  expected_return: "{{ number }}"
  output_details: True
{% endfor %}
