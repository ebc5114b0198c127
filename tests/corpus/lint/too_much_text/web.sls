{% set all = namespace(text='xxxxxxxx') %}
{% for n in range(60) %}
{% set all.text = all.text ~ all.text %}
{% endfor %}
web:
  test.nop
