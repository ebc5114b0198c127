{% if grains['os'] == 'NoSuchSystem' %}
other:
  test.nop: []
{% elif grains['os'] %}
usual:
  test.nop: []
{% else %}
none:
  test.nop: []
{% endif %}
