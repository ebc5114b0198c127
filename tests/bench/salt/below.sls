{%- for n in range(200) %}
{{ pillar.target }}/below{{ n }}:
  file.managed:
    - source: salt://below.jinja
    - template: jinja
{%- endfor %}
