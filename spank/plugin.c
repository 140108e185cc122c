int spank_stub; 
