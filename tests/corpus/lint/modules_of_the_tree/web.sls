web:
  own.present:
    - mach: x

other:
  own.absent: []
