{%- for n in range(1000) %}
{{ pillar['target'] }}/{{ n }}.conf:
  file.managed:
    - contents: "key{{ n }} = value{{ n }}"
    - mode: "0644"
{%- endfor %}
