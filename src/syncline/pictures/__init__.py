"""Parts of pictures: shapes, scales, axes, labels, legends and colours, independent of their subject."""
