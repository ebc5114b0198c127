color: red
shades: {dark: [maroon, {% if grains.id == 'web2' %}wine{% else %}garnet{% endif %}]}
