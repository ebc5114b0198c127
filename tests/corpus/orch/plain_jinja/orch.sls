{% for n in ['x', 'y'] %}
{{ n }}:
  salt.function:
    - name: test.echo
    - tgt: '{{ grains.id }}'
    - arg: [{{ pillar.get('word', 'none') }}]
{% endfor %}
