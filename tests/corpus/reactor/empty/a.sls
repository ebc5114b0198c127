{% if false %}
x: y
{% endif %}
