{% from 'macros.jinja' import site with context %}

{{ site('a') }}
