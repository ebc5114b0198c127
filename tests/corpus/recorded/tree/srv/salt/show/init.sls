include:
  - show.other
{% set l = ['x', 'y'] %}
{% for i in l %}
st_{{ i }}:
  test.nop:
    - name: {{ i }} {{ grains['id'] }} {{ pillar.get('key', 'nokey') }}
    - require:
      - test: other
{% endfor %}
